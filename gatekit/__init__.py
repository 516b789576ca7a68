"""gatekit: is this build of an LLM inference server still accurate, and how sure are we?"""

__version__ = "0.1.0"
