// Set up in every test file: nothing waits until its writes are on the disk, which no test can tell from
// what a computer reads back, and which takes most of the time that property tests of files do.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

fs.fsyncSync = () => {};
syncBuiltinESMExports();
