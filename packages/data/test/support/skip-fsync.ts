// Runs before every test file: writes do not wait for the disk. No test can tell the difference, and waiting
// would take most of the time of property tests of files.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

fs.fsyncSync = () => {};
syncBuiltinESMExports();
