import { library, shared, waiting } from '@mtl/tooling/vitest';

// commands run in processes of their own, and launchers wait for each other
export default library({ ...shared, ...waiting });
