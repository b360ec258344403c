import { library, waiting } from '@mtl/tooling/vitest';

export default library({ ...waiting, include: ['test/**/*.test.ts', 'bench/**/*.test.mjs'] });
