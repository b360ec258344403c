import { entryPoints, library } from '@mtl/tooling/tsup';

// The thread that sends metrics needs a separate file.
export default library([...entryPoints(), 'src/services/tracking-worker.ts']);
