import { library } from '@mtl/tooling/tsup';

// The thread that sends metrics is a file of its own.
export default library(['src/index.ts', 'src/tracking/tracking-worker.ts'], { typed: ['src/index.ts'] });
