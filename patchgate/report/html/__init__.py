"""The HTML report: what is on the page, its template, style and script."""
