import { library } from '@mtl/tooling/vitest';

export default library({ include: ['test/**/*.test.ts', 'bench/**/*.test.mjs'] });
