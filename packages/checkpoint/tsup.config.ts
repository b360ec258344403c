import { library } from '@mtl/tooling/tsup';

// The thread that writes is a file of its own.
export default library(['src/index.ts', 'src/background/shard-writer.ts']);
