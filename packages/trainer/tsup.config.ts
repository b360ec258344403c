import { library } from '@mtl/tooling/tsup';

// The thread that sends metrics is a file of its own.
const typed = ['src/index.ts', 'src/internal/index.ts', 'src/metrics/renamed-losses.ts'];
export default library([...typed, 'src/tracking/tracking-worker.ts'], { typed });
