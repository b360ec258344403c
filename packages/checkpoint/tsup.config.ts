import { entryPoints, library } from '@mtl/tooling/tsup';

// the program of the writer thread is a separate entry point
export default library([...entryPoints(), 'src/saving/shard-writer.ts']);
