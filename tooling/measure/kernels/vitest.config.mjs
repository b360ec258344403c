import { library } from '@mtl/tooling/vitest';

export default library({ include: ['kernels/run-op-benchmarks.ts'], testTimeout: 600_000 });
