import { library } from '@mtl/tooling/vitest';

export default library({ globalSetup: ['test/build-page-once.ts'] });
