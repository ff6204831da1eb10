"""When things happen: dependences and resources of a loop go in, stages, an order, and the pipelined loop come out."""
