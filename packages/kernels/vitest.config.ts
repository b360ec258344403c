import { alone, library } from '@mtl/tooling/vitest';

export default library({
  ...alone,
  include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'bench/**/*.test.mjs'],
});
