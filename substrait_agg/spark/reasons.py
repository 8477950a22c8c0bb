"""x"""
def reason_of(e): return str(e)
