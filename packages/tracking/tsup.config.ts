import { entryPoints, library } from '@mtl/tooling/tsup';

// The thread that sends metrics is a file of its own.
export default library([...entryPoints(), 'src/services/tracking-worker.ts']);
