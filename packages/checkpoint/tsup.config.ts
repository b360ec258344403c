import { entryPoints, library } from '@mtl/tooling/tsup';

// The program of the writer thread is an entry point of its own.
export default library([...entryPoints(), 'src/saving/shard-writer.ts']);
