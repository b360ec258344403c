import { library } from './vitest/preset.mjs';

// tests that install packages at the same time wait for files half of the time
export default library({ include: ['**/*.test.mjs'], exclude: ['**/node_modules/**'], maxConcurrency: 4 });
