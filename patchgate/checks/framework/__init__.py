"""The framework of checks: how they are found, their context, and the judgements that several
share.
"""
