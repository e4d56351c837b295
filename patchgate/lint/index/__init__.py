"""The private API of each torch release: reading it from sources, keeping it, and answering
questions about it.
"""
