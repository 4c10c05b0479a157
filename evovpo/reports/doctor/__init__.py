"""What the doctor says, for people and machines: the sample that it looks at, text, JSON and a picture.

The figures and the verdict are made in `evovpo/analysis/doctor`. Names of objectives and problems are
untrusted text here too.
"""
