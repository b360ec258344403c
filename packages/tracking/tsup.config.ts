import { library } from '@mtl/tooling/tsup';

// The thread that sends metrics is a file of its own.
const typed = ['src/index.ts', 'src/internal/index.ts'];
export default library([...typed, 'src/services/tracking-worker.ts'], { typed });
