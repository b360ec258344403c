import { library, shared } from '@mtl/tooling/vitest';

export default library(shared);
