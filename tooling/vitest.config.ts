import { library } from './vitest/preset.mjs';

export default library({ include: ['**/*.test.mjs'], exclude: ['**/node_modules/**'], maxConcurrency: 2 });
