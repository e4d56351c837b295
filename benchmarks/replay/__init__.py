"""Repairs that real projects made for another torch: would lint have asked for them?"""
