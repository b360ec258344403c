import { library } from '@mtl/tooling/tsup';
import { buildPage } from './build-page.mjs';

export default library(undefined, { addFiles: buildPage });
