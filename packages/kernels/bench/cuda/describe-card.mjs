#!/usr/bin/env node
// The card that is opened, driver and libraries, as one line of JSON; `isEmulated`: there is none, and figures mean nothing.
import { findGpu, openCuda } from '../../dist/index.js';

console.log(JSON.stringify({ ...openCuda(), isEmulated: findGpu().isEmulated }));
