import { library } from '@mtl/tooling/vitest';

export default library({ include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'bench/**/*.test.mjs'] });
