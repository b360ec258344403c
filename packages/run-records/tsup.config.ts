import { library } from '@mtl/tooling/tsup';

export default library(undefined, { bundles: ['zod'] });
