import { library, sharedBut } from '@mtl/tooling/vitest';

export default library(
  sharedBut(['test/{fine-tuning-errors,fine-tuning-recomputation,nothing-left-open}.test.ts']),
);
