import { library, shared } from '@mtl/tooling/vitest';
import { mergeConfig } from 'vitest/config';

export default mergeConfig(library(shared), { test: { setupFiles: ['./test/support/skip-fsync.ts'] } });
