"""The HTML report: its contents, template, style and script."""
