"""The HTML report in a real browser: the pictures of the documentation, and how long a page takes
to open.
"""
