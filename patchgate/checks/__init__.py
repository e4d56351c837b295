"""The checks that judge a patch.

Every module in this folder is a check; code that checks share is in `framework`.
"""
