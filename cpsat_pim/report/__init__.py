"""What people and programs are shown: tables, loop nests, JSON and live progress. Display units exist only here."""
