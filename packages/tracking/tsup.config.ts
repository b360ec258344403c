import { entryPoints, library } from '@mtl/tooling/tsup';

const typed = entryPoints();
// The thread that sends metrics is a file of its own.
export default library([...typed, 'src/services/tracking-worker.ts'], { typed });
