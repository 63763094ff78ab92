"""Clock profiles: what a profile asks for, and the ordered steps that bring a board there. Pure: no connections."""
