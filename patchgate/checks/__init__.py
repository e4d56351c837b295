"""The checks that judge a patch.

Every module in this folder is a check; what checks share is in `framework`.
"""
