import { entryPoints, library } from '@mtl/tooling/tsup';

// The thread that writes is a file of its own.
export default library([...entryPoints(), 'src/saving/shard-writer.ts']);
