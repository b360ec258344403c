'use strict';
const { workerData } = require('node:worker_threads');
const { runPoolThread } = require('./instantiate.cjs');

runPoolThread(workerData);
