// The build configuration of a package that has no tsup.config.ts. It names only the package's entry points.
import { library } from './preset.mjs';

export default library();
