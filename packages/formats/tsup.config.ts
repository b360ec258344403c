import { library } from '@mtl/tooling/tsup';

export default library();
