import { library, waiting } from '@mtl/tooling/vitest';

export default library(waiting);
