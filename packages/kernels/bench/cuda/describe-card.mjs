#!/usr/bin/env node
// The card that is opened, driver and libraries, as one line of JSON.
import { openCuda } from '../../dist/index.js';

console.log(JSON.stringify(openCuda()));
