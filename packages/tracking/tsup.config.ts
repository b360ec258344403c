import { entryPoints, library } from '@mtl/tooling/tsup';

// The program of the thread that sends metrics is an entry point of its own.
export default library([...entryPoints(), 'src/services/tracking-worker.ts']);
