import { library, shared, waiting } from '@mtl/tooling/vitest';

export default library({ ...shared, ...waiting, include: ['test/**/*.test.ts', 'bench/**/*.test.mjs'] });
