import { library, shared, waiting } from '@mtl/tooling/vitest';

// commands run in separate processes, and launchers wait for each other
export default library({ ...shared, ...waiting });
