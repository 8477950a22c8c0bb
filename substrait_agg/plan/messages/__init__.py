"""Messages of a plan as they are written.

Protobuf or JSON of any release, read without recursion into `node.MessageNode`.
"""
