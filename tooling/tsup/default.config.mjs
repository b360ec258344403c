// The build of a package that has no tsup.config.ts: its entry points, and nothing of its own.
import { library } from './preset.mjs';

export default library();
