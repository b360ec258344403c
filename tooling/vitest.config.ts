import { library } from './vitest/preset.mjs';

// tests that install packages wait for files half of the time, so more tests run at the same time
export default library({ include: ['**/*.test.mjs'], exclude: ['**/node_modules/**'], maxConcurrency: 4 });
