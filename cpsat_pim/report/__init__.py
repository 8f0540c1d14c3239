"""Present results: tables, loop nests, JSON, HTML pages and live progress; only this folder uses display units."""
