import { entryPoints, library } from '@mtl/tooling/tsup';

// the thread that sends metrics needs its own entry point
export default library([...entryPoints(), 'src/services/tracking-worker.ts']);
