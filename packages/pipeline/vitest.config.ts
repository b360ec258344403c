import { alone, library } from '@mtl/tooling/vitest';

export default library(alone);
