#include "comm/group_watch.h"

#include <utility>

namespace sluice {
namespace {

thread_local GroupWatch* of_thread = nullptr;

}  // namespace

GroupWatchScope::GroupWatchScope(GroupWatch& watch) : outer_(std::exchange(of_thread, &watch)) {}
GroupWatchScope::~GroupWatchScope() { of_thread = outer_; }

GroupWatch* group_watch() { return of_thread; }

}  // namespace sluice
