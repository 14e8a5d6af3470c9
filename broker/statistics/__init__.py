"""What is known of the streams, and what is counted about it: the only package that does.

    outline_table.py   the outline of each stored document: exact counts of label paths
    values.py          the values of a sample: how many differ, which are frequent, which meet
    model.py           what is known of a stream, as plain data
    joins.py           pairs of label paths whose values meet
    streams.py         the catalogue of streams, for whoever wants to know

A number here is one of two kinds. Counts of documents by stream and label path of elements are
exact at any time, because each stored document carries its outline. All that needs the values of
documents (attributes, samples, joins) is read when somebody wants to know it, from a sample that is
chosen by a hash of the documents' identities; nothing of it is stored, so no value outlives the
documents that have it, and documents pay nothing for it when they arrive.
"""
